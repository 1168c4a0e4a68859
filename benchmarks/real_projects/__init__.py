"""Real CUDA projects from the package index, built and edited with and without caches; see ../projects.py.

catalogue.py    the projects: their files by hash, their units and edits
downloads.py    files of the indexes in pip's configuration, checked by hash
checkouts.py    the sources of a project, unpacked, copied and edited
builds.py       how each build system is configured and started
lanes.py        plain nvcc, nvccache, ccache and sccache
measuring.py    the steps: builds each with every lane, compares every object
"""
