"""Module ids: how they are made, and plans in which each stage makes them itself."""
