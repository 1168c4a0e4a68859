"""`nvccache report`: an HTML page, and a trace for Perfetto, made from the event log.

Optional: nothing imports it, and `cli` finds it by name, so that the rest works without it. `command` reads
the log, `calls` holds its events, and `figures` computes what is shown. `page`, `page_parts` and `trace` are
the output. page.html, page.css and the scripts are the page.
"""
