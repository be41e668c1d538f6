/* A program that opens a gamepad and loses it, for the tests of the gamepad.
 *
 * Usage: lost_pad WAY. It closes the device in this way and writes a point; for each byte of its input it looks at the time
 * and writes another one.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

int main(int n, char **words)
{
    int fd = open("/dev/input/js0", O_RDONLY | O_NONBLOCK);
    if (n != 2 || fd < 0)
        return 1;
    if (strcmp(words[1], "fclose") == 0)
        fclose(fdopen(fd, "rb"));
    else if (strcmp(words[1], "dup2") == 0)
        dup2(open("/dev/null", O_RDONLY), fd);
    else
        close(fd);
    char byte = '.';
    do {
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        if (write(STDOUT_FILENO, &byte, 1) != 1)
            return 1;
    } while (read(STDIN_FILENO, &byte, 1) == 1);
    return 0;
}
