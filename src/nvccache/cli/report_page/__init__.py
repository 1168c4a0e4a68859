"""What `nvccache report` makes of the event log: a page of HTML, and a trace for Perfetto.

`calls` holds what is read, `figures`, `lanes` and `kept` what is worked out from it; `page`, `page_parts`,
`columns` and `trace` write it down. page.html, page.css and the scripts are the page itself. Nothing here
knows how the log is kept.
"""
