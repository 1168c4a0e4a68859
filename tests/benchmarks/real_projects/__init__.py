"""Real CUDA projects from the package index, built and edited with and without caches; see ../projects.py.

catalogue.py    the projects: their files by hash, their units and edits
downloads.py    files of the indexes in pip's configuration, checked by hash
checkouts.py    the sources of a project, unpacked, copied and edited
builds.py       how each build system is configured and started
steps.py        the builds in order, and their goals
lanes.py        plain nvcc, nvccache, ccache and sccache
measuring.py    runs the steps, compares every object
limits.py       the stages whose output an edit changes, and their seconds
results.py      ratios, tables and the picture
"""
