"""The pages for the browser: rendered here, with what the routes of the API call.

What runs in the browser lies in `assets/`, of which `scripts/bundle` makes `static/editor.js`.
"""
