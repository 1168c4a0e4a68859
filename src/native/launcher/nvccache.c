/* The executable `nvccache`: replays a call that was made before, or starts Python in isolated mode. Python gets the
   environment unchanged, except for variables that could keep it from starting.

   A script could not do that. pip removes the options from the first line of a Python script, so that PYTHONHOME,
   PYTHONPATH and the like would take effect. A shell script would add PWD and other variables to nvcc's environment.

   If Python cannot be started, this executes the compiler that the call names, or else an nvcc on PATH. If Python
   starts but cannot load nvccache, nvccache-python executes this program again, with the reason in FAULT, and this then
   executes the compiler. */

#include "launcher.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

#define FAULT "_NVCCACHE_FAULT" /* as in nvccache-python */

int main(int argc, char **argv)
{
    static struct call call;
    const char *started = (const char *)getauxval(AT_EXECFN);
    char folder[PATH_MAX] = "", *fault = getenv(FAULT);
    int is_within;

    clock_gettime(CLOCK_REALTIME, &call.began);
    clock_gettime(CLOCK_MONOTONIC, &call.since);
    if (!started)
        started = argc > 0 ? argv[0] : "nvccache";
    call.argc = argc, call.argv = argv, call.started = started;
    if (fault && argc > 0) {
        fault = strdup(fault);
        unsetenv(FAULT);
        release_loader_variables();
        run_compiler(&call);
        fprintf(stderr, "nvccache: %s\n", fault ? fault : "it cannot be loaded by Python");
        return 127;
    }
    is_within = argc > 0 && leave_script(&call);
    answer_by_record(&call);
    if (!find_folder(started, folder)) {
        fprintf(stderr, "nvccache: cannot find out where `%s` is\n", started);
        return 127;
    }
    if (argc > 0)
        run_nvcc_script(&call, folder, is_within);
    start_python(folder, &call);
    if (argc > 0)
        run_compiler(&call);
    fprintf(stderr, "nvccache: cannot start Python: neither `%s/python3` nor the one that `%s/" SCRIPT "` names\n", folder,
            folder);
    return 127;
}
