"""The pages for the browser: rendered here, with what the routes of the API call.

What runs in the browser lies in `static/`; its `editor.js` is made by `scripts/pages/bundle`.
"""
