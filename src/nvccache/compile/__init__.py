"""A call that no record answers: from its request through all of its stages to its report.

The top of the pipeline. pipeline.py has the steps of a call, runner.py carries out the plan.
"""
