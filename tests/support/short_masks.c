/* A program whose signal masks of 8 bytes lie at the end of a page, before one that is not mapped. */
#define _GNU_SOURCE
#include <poll.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int main(void)
{
    long page = sysconf(_SC_PAGESIZE);
    char *memory = mmap(NULL, 2 * (size_t)page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED || munmap(memory + page, (size_t)page) != 0)
        return 1;
    uint64_t *mask = (uint64_t *)(memory + page) - 1;
    struct timespec none = {0};
    struct {
        uint64_t *mask;
        size_t n_bytes;
    } sized = {mask, sizeof *mask};
    struct epoll_event event;
    int all = epoll_create1(0);
    if (syscall(SYS_ppoll, NULL, 0, &none, mask, sizeof *mask) != 0)
        return 2;
    if (syscall(SYS_pselect6, 0, NULL, NULL, NULL, &none, &sized) != 0)
        return 3;
    if (syscall(SYS_epoll_pwait, all, &event, 1, 0, mask, sizeof *mask) != 0)
        return 4;
    *mask = UINT64_C(1) << 9; /* SIGUSR1, which does not come */
    if (syscall(SYS_rt_sigtimedwait, mask, NULL, &none, sizeof *mask) != -1)
        return 5;
    return 0;
}
