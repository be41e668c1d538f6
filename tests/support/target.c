/* A small game without a picture: objects behind pointers, which it moves, loses and frees on command.
 *
 * It prints where its root is, then answers each line of its standard input with one line. */
#define _GNU_SOURCE
#define __USE_MINGW_ANSI_STDIO 1
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uchar.h>

#define AREA ((void *)0x140000000)
#define POISON 0xDDDDDDDDu

struct body { uint8_t gap[0x10]; int64_t exp; };

struct chr {
  uint32_t id;          /* 0x00 */
  int32_t hp;           /* 0x04 */
  float x, y, z;        /* 0x08 */
  uint8_t flags;        /* 0x14 */
  uint8_t is_alive;     /* 0x15 */
  double speed;         /* 0x18 */
  char name[16];        /* 0x20 */
  char16_t title[16];   /* 0x30 */
  int32_t angle;        /* 0x50 */
  struct body *body;    /* 0x58 */
  uint32_t mark;        /* 0x60: equal to serial while the object lives, POISON afterwards */
  uint32_t serial;      /* 0x64 */
};

struct area { uint8_t gap[0x28]; struct chr *player; };
struct world { uint64_t gap; struct area *area; struct chr **begin, **end; };
struct root { struct world *world; };

static struct root root;
static struct root *root_pointer = &root;
static struct world world;
static struct area area;
static struct body bodies[2];
static struct chr *list[64];
static uint32_t n_serial;

#ifdef _WIN32
#include <windows.h>

static void *pages(size_t size) {
  return VirtualAlloc(NULL, size, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE);
}

static void release(void *at) {
  VirtualFree(at, 0, MEM_RELEASE);
}

static void protect(void *at) {
  DWORD before;
  VirtualProtect(at, 4096, PAGE_NOACCESS, &before);
}

static void make_code(void *at) {
  DWORD before;
  VirtualProtect(at, 4096, PAGE_EXECUTE_READ, &before);
}

static void guard(void *at) {
  DWORD before;
  VirtualProtect(at, 4096, PAGE_READWRITE | PAGE_GUARD, &before);
}

/* Maps a file, or else memory. */
static void *map(size_t size, const char *path) {
  if (!*path) return VirtualAlloc(AREA, size, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE);
  HANDLE file = CreateFileA(path, GENERIC_READ, FILE_SHARE_READ, NULL, OPEN_EXISTING, 0, NULL);
  HANDLE mapping = CreateFileMappingA(file, NULL, PAGE_READONLY, 0, 0, NULL);
  return MapViewOfFileEx(mapping, FILE_MAP_READ, 0, 0, 0, AREA);
}

/* Denies all rights to those who open the process from now on. */
static void hide(void) {
  SECURITY_DESCRIPTOR descriptor;
  ACL nobody;
  InitializeSecurityDescriptor(&descriptor, SECURITY_DESCRIPTOR_REVISION);
  InitializeAcl(&nobody, sizeof nobody, ACL_REVISION);
  SetSecurityDescriptorDacl(&descriptor, TRUE, &nobody, FALSE);
  SetKernelObjectSecurity(GetCurrentProcess(), DACL_SECURITY_INFORMATION, &descriptor);
}

static void rename_process(const char *name) {
  (void)name;
}

/* Long enough for a reader of a process under Wine, whose calls take 40 us each. */
static void wait_briefly(void) {
  Sleep(1);
}

static void start_thread(void (*run)(void)) {
  CreateThread(NULL, 0, (LPTHREAD_START_ROUTINE)(void *)run, NULL, 0, NULL);
}
#else
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

static void *pages(size_t size) {
  return mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static void release(void *at) {
  munmap(at, 4096);
}

static void protect(void *at) {
  mprotect(at, 4096, PROT_NONE);
}

static void make_code(void *at) {
  mprotect(at, 4096, PROT_READ | PROT_EXEC);
}

static void guard(void *at) {
  protect(at);
}

/* Maps memory whose first page is a file, if there is a path. */
static void *map(size_t size, const char *path) {
  char *at = mmap(AREA, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  if (*path) {
    int file = open(path, O_RDONLY);
    mmap(at, 4096, PROT_READ, MAP_PRIVATE | MAP_FIXED, file, 0);
    close(file);
  }
  return at;
}

static void hide(void) {
  prctl(PR_SET_DUMPABLE, 0);
}

static void rename_process(const char *name) {
  prctl(PR_SET_NAME, name);
}

static void wait_briefly(void) {
  struct timespec pause = {0, 20000};
  nanosleep(&pause, NULL);
}

static void start_thread(void (*run)(void)) {
  pthread_t thread;
  pthread_create(&thread, NULL, (void *(*)(void *))(void *)run, NULL);
}
#endif

static void fill(struct chr *one, uint32_t id, int32_t hp) {
  one->id = id;
  one->hp = hp;
  one->x = 1.5f;
  one->y = -2.25f;
  one->z = 1e3f;
  one->flags = 0x24;
  one->is_alive = 1;
  one->speed = 0.1;
  strcpy(one->name, "Margit\xc3\xa9");
  memcpy(one->title, u"The Fell \xe9", 22);
  one->angle = 0x18000;
  one->body = &bodies[0];
  one->serial = one->mark = ++n_serial;
}

static void poison(struct chr *one) {
  memset(one, 0xDD, sizeof *one);
}

static void move_player(void) {
  struct chr *old = area.player, *fresh = pages(4096);
  fill(fresh, 1, old->hp + 1);
  __atomic_store_n(&area.player, fresh, __ATOMIC_SEQ_CST);
  poison(old);
}

/* Replaces the player all the time; an object is used again after 4096 others. */
static void spin(void) {
  struct chr *ring = pages(4096 * sizeof *ring);
  for (size_t i = 0;; i = (i + 1) % 4096) {
    struct chr *old = area.player;
    fill(&ring[i], 1, (int32_t)(i % 1000));
    __atomic_store_n(&area.player, &ring[i], __ATOMIC_SEQ_CST);
    poison(old);
    wait_briefly();
  }
}

static void insert(uint32_t id) {
  size_t n = world.end - world.begin;
  memmove(&list[1], &list[0], n * sizeof list[0]);
  list[0] = pages(4096);
  fill(list[0], id, (int32_t)id);
  world.end = list + n + 1;
}

int main(void) {
  char line[512], path[400];
  unsigned long long address, size;
  unsigned id;
  area.player = pages(4096);
  fill(area.player, 1, 100);
  world.area = &area;
  world.begin = world.end = list;
  bodies[0].exp = 1234567890123;
  bodies[1].exp = -1;
  for (id = 12; id >= 10; id--) insert(id);
  root.world = &world;
  printf("%p %p %p\n", (void *)&root, (void *)&root_pointer, (void *)&move_player);
  fflush(stdout);
  while (fgets(line, sizeof line, stdin)) {
    void *answer = NULL;
    path[0] = 0;
    if (!strcmp(line, "move\n")) move_player();
    else if (!strcmp(line, "null\n")) root.world = NULL;
    else if (!strcmp(line, "restore\n")) root.world = &world;
    else if (!strcmp(line, "unmap\n")) release(area.player);
    else if (!strcmp(line, "guard\n")) guard(area.player);
    else if (!strcmp(line, "protect\n")) protect(area.player);
    else if (!strcmp(line, "empty\n")) world.end = world.begin;
    else if (!strcmp(line, "free 0\n")) release(list[0]);
    else if (!strcmp(line, "body\n")) area.player->body = &bodies[1];
    else if (!strcmp(line, "hide\n")) hide();
    else if (sscanf(line, "call %399s", path) == 1) rename_process(path);
    else if (sscanf(line, "insert %u", &id) == 1) insert(id);
    else if (sscanf(line, "id %u", &id) == 1) list[0]->id = id;
    else if (sscanf(line, "map %llu %399s", &size, path) >= 1) answer = map(size, path);
    else if (sscanf(line, "rx %llu", &address) == 1) make_code((void *)(uintptr_t)address);
    else if (!strcmp(line, "spin\n")) start_thread(spin);
    else if (sscanf(line, "exit %u", &id) == 1) return (int)id;
    else return 99;
    printf("%p\n", answer);
    fflush(stdout);
  }
  return 0;
}
