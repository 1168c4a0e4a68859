"""Runs stages on other machines: on an engine with the Remote Execution API, or by a launcher such as `srun`.

Owns how a stage is described, sent and received. Knows neither the order of stages nor what happens to
their outputs. grpcio and protobuf are imported with the first stage that is sent.
"""
