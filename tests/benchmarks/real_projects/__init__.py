"""Real CUDA projects from the package index, built and edited with and without caches; see ../projects.py.

catalogue.py    which projects: their files by hash, their units and the places of the edits
downloads.py    files of an index, found as pip is configured and checked by hash
checkouts.py    the sources of a project, unpacked, copied and edited
builds.py       how each build system is configured and started
steps.py        what is done one after the other, and the goals
figures.py        plain nvcc, nvccache, ccache and sccache
measuring.py    does the steps, compares every object
limits.py       which stages' output an edit changes, and the seconds that these take
results.py      ratios, tables and the picture
"""
