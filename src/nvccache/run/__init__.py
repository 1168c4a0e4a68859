"""Calls that no record answers: their stages run or are found in the cache, and the calls are recorded.

compile.py          the steps of a call from top to bottom; query.py, the same for a call without stages
call.py             Compile, the state of a call; Intermediates, its intermediate files
stage_run.py        StageRun, the state of a stage
deliver.py          starts the stages, and delivers their products and messages in nvcc's order
schedule.py         decides which stage runs when, and where its result comes from
find_stage.py, run_stage.py, publish_stage.py    look up one stage, run it, and store its result
wrappers.py         detects wrappers of the host compiler, and decides where objects are written
record_call.py      makes the record with which the next such call is a direct hit
"""
