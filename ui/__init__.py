"""The web pages: rendered on the server, with the same functions that the API's routes call.

The browser's files are in `static/`; its `editor.js` is built by `scripts/pages/bundle`.
"""
