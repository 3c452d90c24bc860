"""Kinds of graders: classes that make one from a few settings.

    templates.py  prompts in Handlebars

Graders see these modules inside the sandbox, so they import nothing but the standard library and the template engine.
"""
