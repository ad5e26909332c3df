"""How this project's pages look, in light and in dark: colours by what they say, type, tables. CSS, loads nothing.

`plan` and `status --web` share it. Colours are dark enough on white, and light enough on dark ground, for text of any
size (WCAG AA, 4.5:1); what they say is always also said in words or by a sign.
"""

from __future__ import annotations

BASE = """
:root { color-scheme: light dark; --ground: #fff; --raised: #f6f7f9; --ink: #1a1a1a; --soft: #555; --line: #ddd;
  --faint: #eee; --good: #1b7837; --busy: #8a5200; --bad: #b2182b; --main: #2166ac; --again: #b35806; --other: #762a83 }
@media (prefers-color-scheme: dark) {
  :root { --ground: #16181c; --raised: #1f2329; --ink: #e6e6e6; --soft: #aab2bd; --line: #3a3f47; --faint: #2b3037;
    --good: #7ccf8e; --busy: #f0b35a; --bad: #ff8a80; --main: #82b8f0; --again: #f4a582; --other: #d3a4e0 }
}
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: var(--ink);
  background: var(--ground) }
h1 { margin-bottom: .2rem } h2 { margin-top: 2.2rem; border-top: 1px solid var(--line); padding-top: 1rem }
table { border-collapse: collapse; width: 100%; margin: .8rem 0; font-size: .9em }
th, td { text-align: left; padding: .25rem .6rem .25rem 0; border-bottom: 1px solid var(--faint); vertical-align: top }
td.n, th.n { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums }
td.s { color: var(--soft); font-size: .85em; overflow-wrap: anywhere; min-width: 14rem }
.note { color: var(--soft); margin: .2rem 0 } .wide { overflow-x: auto } code { font-size: .95em }
"""
