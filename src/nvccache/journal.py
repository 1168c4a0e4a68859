"""The journal: one record a call, appended without a lock, folded into totals by whoever reads them.

    $NVCCACHE_DIR/journal/
      calls-v1.log      one line a call, appended with a single write
      totals-v1.json    what the lines folded so far add up to

Owns the format of both; knows nothing of how an outcome came about.
"""
