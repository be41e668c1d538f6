/* A small program with values to be found: it prints where they are, and changes them as it is told on standard input.
 *
 * The health is reached as game -> player (+0x40) -> body (+0x18), health at +0x1c of it; `game` is a static pointer.
 * Answers to each line with "ok".
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct body { char pad[0x1c]; int32_t health; float stamina; char name[32]; uint16_t title[16]; double speed; };
struct player { char pad[0x18]; struct body *body; };
struct game { char pad[0x40]; struct player *player; };

static struct game *game;
static int32_t score = 777001;
static int32_t heap_noise[4096];

__attribute__((noinline)) static void hurt(int by) { game->player->body->health -= by; }
__attribute__((noinline)) static void add_score(int by) { score += by; }

static void *scattered(size_t size)
{
    /* So that the distance between two objects is not the same in every run. */
    static void *kept[64];
    for (int i = 0; i < 64; i++)
        kept[i] = malloc(64 + (size_t)rand() % 4096);
    for (int i = 0; i < 64; i += 2)
        free(kept[i]);
    return calloc(1, size);
}

int main(int argc, char **argv)
{
    srand(argc > 1 ? (unsigned)atoi(argv[1]) : 1);
    game = scattered(sizeof *game);
    game->player = scattered(sizeof *game->player);
    struct body *body = game->player->body = scattered(sizeof *body);
    body->health = 31415;
    body->stamina = 12.5f;
    body->speed = 2.75;
    strcpy(body->name, "Tarnished of no renown");
    for (int i = 0; i < 9; i++)
        body->title[i] = (uint16_t) "Elden_Lord"[i];
    for (int i = 0; i < 4096; i++)
        heap_noise[i] = 31415;
    printf("%p %p %p %p %p %p\n", (void *)&body->health, (void *)&body->stamina, (void *)body->name,
           (void *)body->title, (void *)&score, (void *)&game);
    fflush(stdout);
    char word[32];
    double value;
    while (scanf("%31s %lf", word, &value) == 2) {
        if (!strcmp(word, "hurt"))
            hurt((int)value);
        else if (!strcmp(word, "noise"))
            for (int i = 0; i < 4096; i++)
                heap_noise[i] += (int)value;
        else if (!strcmp(word, "stamina"))
            body->stamina = (float)value;
        else if (!strcmp(word, "score"))
            add_score((int)value);
        puts("ok");
        fflush(stdout);
    }
    return 0;
}
