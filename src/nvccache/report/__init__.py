"""`nvccache report`: a page of HTML, and a trace for Perfetto, made of the event log.

Beside the core: nothing imports it, and `cli` finds it by its name, so that all else works where it is not
installed. `command` reads the log and `kept` the cache. `calls` holds what is read, of the events' JSON form
and of nothing else; `figures` and `lanes` are worked out from it; `page`, `page_parts` and `trace` write it
down. page.html, page.css and the scripts are the page itself.
"""
