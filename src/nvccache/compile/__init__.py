"""A call that no record answers: from its request to its report, over all of its stages.

The top of the pipeline. pipeline.py has the steps of a call, runner.py carries out the plan.
"""
