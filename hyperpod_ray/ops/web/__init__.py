"""A live page on 127.0.0.1 about an environment, or about a rehearsal. The standard library serves it.

- `view`: what the page shows, as plain data.
- `environment`: that data from a snapshot and its verdict; a rehearsal fills it from its own files.
- `page`, `timeline`, `assets/`: the data as HTML and SVG.
- `watch`: looks again and again, apart from the browsers that ask.
- `server`: answers browsers of this machine, and nobody else.
"""
