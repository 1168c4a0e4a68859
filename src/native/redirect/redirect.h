/* Definitions that the launcher shares with the library that it preloads into scripts. */

#ifndef REDIRECT_H
#define REDIRECT_H

#define LIBRARY "nvccache-redirect.so" /* next to the launcher */
#define CALLED_BY_SCRIPT "nvccache (called by a script)" /* argv[0] of a redirected nvcc */

#endif
