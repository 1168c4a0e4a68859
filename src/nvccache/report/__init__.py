"""`nvccache report`: an HTML page, and a trace for Perfetto, made from the event log.

Nothing imports this package, and `cli` finds it by name, so that nvccache works without it. `lanes` puts
calls and stages that overlap in time into separate lanes, and `tables` makes the parts of the page that need
no script. `page` puts page.html, page.css, the scripts and the data together.
"""
