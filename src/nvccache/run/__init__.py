"""A call that no record answers: from its request through its stages to its records.

compile.py          the call from top to bottom; query.py, a call that compiles nothing
call.py             Compile, the state of a call, and its intermediate files
stage_run.py        StageRun, the state of a stage
attempt.py          its stages, and the delivery of their products and messages in nvcc's order
schedule.py         which stage runs when, and where its result comes from
find_stage.py, run_stage.py, publish_stage.py    one stage: looked up, run, stored
wrappers.py         wrappers of the host compiler, and where objects are written
record_call.py      the record with which the next call is a direct hit
"""
