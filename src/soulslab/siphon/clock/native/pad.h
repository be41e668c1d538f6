/* The gamepad in the game (pad.c), for the functions of the library that open, read and close files. */
#ifndef SOULSLAB_PAD_H
#define SOULSLAB_PAD_H

#include "preload.h"

#define NOT_A_PAD (-2)

/* A descriptor of the device, -1 and errno, or NOT_A_PAD. */
int open_pad(const char *path, int flags);
void close_pad(int fd);
void reset_pads(void); /* in a new process */

#endif
