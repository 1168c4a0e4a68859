"""`nvccache report`: an HTML page, and a trace for Perfetto, made from the event log.

Optional: nothing imports it, and `cli` finds it by name, so that the rest works without it. `lanes` arranges
what overlaps in time, `tables` has the parts of the page that need no script. The page consists of page.html,
page.css and the scripts.
"""
