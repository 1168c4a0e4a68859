"""Runs stages on other machines: on an engine with the Remote Execution API, or by a launcher such as `srun`.

Describes and sends a stage, and receives its result. Knows neither the order of stages nor what happens to
their outputs. grpcio and protobuf are imported when the first stage is sent.
"""
