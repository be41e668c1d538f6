/* Changing the program. The samples of spin.c would kill a process whose new program has not set up the signal yet. An
 * ignored signal stays ignored over the change, and the library sets it up again in the new program. */
#define _GNU_SOURCE
#include "preload.h"

#include <alloca.h>
#include <dlfcn.h>
#include <stdarg.h>

extern char **environ;

/* Ignore samples and call one of the next two functions, which return on failure only. */
static int change_program(int (*real_exec)(const char *, char *const *, char *const *), const char *path,
                          char *const *arguments, char *const *variables)
{
    if (!is_attached())
        return real_exec(path, arguments, variables);
    struct sigaction ignored = {.sa_handler = SIG_IGN}, before;
    sigaction(CLOCK_SAMPLE_SIGNAL, &ignored, &before);
    int result = real_exec(path, arguments, variables);
    int saved_errno = errno;
    sigaction(CLOCK_SAMPLE_SIGNAL, &before, NULL);
    errno = saved_errno;
    return result;
}

static int exec_path(const char *path, char *const *arguments, char *const *variables)
{
    errno = (int)-clock_call(SYS_execve, path, arguments, variables);
    return -1;
}

/* It searches PATH, and passes a file that is not a program to the shell. */
static int exec_name(const char *name, char *const *arguments, char *const *variables)
{
    int (*real_execvpe)(const char *, char *const *, char *const *) = dlsym(RTLD_NEXT, "execvpe");
    return real_execvpe(name, arguments, variables);
}

PUBLIC int execve(const char *path, char *const arguments[], char *const variables[])
{
    return change_program(exec_path, path, arguments, variables);
}

PUBLIC int execv(const char *path, char *const arguments[])
{
    return change_program(exec_path, path, arguments, environ);
}

PUBLIC int execvpe(const char *name, char *const arguments[], char *const variables[])
{
    return change_program(exec_name, name, arguments, variables);
}

PUBLIC int execvp(const char *name, char *const arguments[])
{
    return change_program(exec_name, name, arguments, environ);
}

/* The arguments of execl and its relatives end with NULL; execle has the variables behind it. */
#define WITH_ARGUMENTS(real_exec, path, has_variables)                                                                 \
    va_list rest, again;                                                                                               \
    size_t n = 1;                                                                                                      \
    va_start(rest, first);                                                                                             \
    va_copy(again, rest);                                                                                              \
    for (const char *text = first; text != NULL; n++)                                                                  \
        text = va_arg(rest, const char *);                                                                             \
    char *const *variables = has_variables ? va_arg(rest, char *const *) : environ;                                    \
    va_end(rest);                                                                                                      \
    const char **arguments = alloca(n * sizeof *arguments);                                                            \
    arguments[0] = first;                                                                                              \
    for (size_t i = 1; i < n; i++)                                                                                     \
        arguments[i] = va_arg(again, const char *);                                                                    \
    va_end(again);                                                                                                     \
    return change_program(real_exec, path, (char *const *)arguments, variables)

PUBLIC int execl(const char *path, const char *first, ...)
{
    WITH_ARGUMENTS(exec_path, path, false);
}

PUBLIC int execlp(const char *name, const char *first, ...)
{
    WITH_ARGUMENTS(exec_name, name, false);
}

PUBLIC int execle(const char *path, const char *first, ...)
{
    WITH_ARGUMENTS(exec_path, path, true);
}
