"""Stages on other machines: an engine that speaks the Remote Execution API, or a launcher such as `srun`.

Owns how a stage is described to other machines, how it is sent and what comes back. Does not know which
stage comes when, nor what becomes of what a stage has made. grpcio and protobuf are imported when something
is sent.
"""
