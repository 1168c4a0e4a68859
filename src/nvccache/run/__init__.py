"""A call that no record answers: from its request through its stages to its records.

compile.py          the call from top to bottom; query.py, one that only answers a question
call.py             Compile, the state of a call; stage_run.py, StageRun, that of a stage
intermediates.py    the files between stages, by digest and on disk
attempt.py          its stages, and the delivery of their products and messages in nvcc's order
schedule.py         which stage runs when, and where its result comes from
find_stage.py, run_stage.py, publish_stage.py    one stage: looked up, run, stored
record_call.py      the record with which the next call is a direct hit
"""
