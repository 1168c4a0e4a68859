/* execl and its variants, which call execv and its variants. Libraries that wrap the latter include this file. */

#ifndef EXECL_H
#define EXECL_H

#include <alloca.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

/* Count the arguments of execl or a variant, and copy them to the stack. */
#define GATHER(words, first, list) \
    const char *word; \
    size_t count = 0; \
    va_start(list, first); \
    for (word = first; word; word = va_arg(list, const char *)) \
        count++; \
    va_end(list); \
    char **words = alloca((count + 1) * sizeof *words); \
    va_start(list, first); \
    for (word = first, count = 0; word; word = va_arg(list, const char *)) \
        words[count++] = (char *)(uintptr_t)word; \
    words[count] = NULL;

int execl(const char *path, const char *first, ...)
{
    va_list list;
    GATHER(words, first, list)
    va_end(list);
    return execv(path, words);
}

int execlp(const char *file, const char *first, ...)
{
    va_list list;
    GATHER(words, first, list)
    va_end(list);
    return execvp(file, words);
}

int execle(const char *path, const char *first, ...)
{
    va_list list;
    GATHER(words, first, list)
    char **variables = va_arg(list, char **);
    va_end(list);
    return execve(path, words, variables);
}

#endif
