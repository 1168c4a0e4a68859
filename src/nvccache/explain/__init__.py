"""Why a call was not a direct hit: how it differs from the last compile of the same object, as clauses.

Reads records and the state of a call. run/compile.py calls this package, but does not depend on its clauses.
"""
