/* Whether the machine is as it was, and nvcc finds room for its temporary files. */

#include "launcher.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Whether the machine has not rebooted, if the record depends on the machine. */
int is_same_machine(const struct record *record)
{
    const char *recorded = string(record, record->head->boot);
    char boot[128];

    if (!*recorded)
        return 1;
    if (read_file(BOOT, boot, sizeof boot) <= 0)
        return 0;
    boot[strcspn(boot, "\n")] = '\0';
    return strcmp(boot, recorded) == 0;
}

/* nvcc fails without the directory for its temporary files. */
int has_room_for_temporary_files(void)
{
    const char *directory = getenv("TMPDIR");
    char path[PATH_MAX];

    if (!directory)
        directory = "/tmp";
    return *directory && snprintf(path, sizeof path, "%s/.", directory) < (int)sizeof path &&
           access(path, W_OK | X_OK) == 0;
}
