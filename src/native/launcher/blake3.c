/* BLAKE3 of what lies in memory, 256 bits, by its paper (section 2 of "BLAKE3: one function, fast everywhere").
   `keys.digest_bytes` makes the same digests by the package `blake3`.

   It names what must not be forged or guessed from the cache: calls, and values of variables. */

#include "launcher.h"

#include <string.h>

#define CHUNK 1024
#define BLOCK_SIZE 64
#define ROUNDS 7

enum { CHUNK_START = 1, CHUNK_END = 2, PARENT = 4, ROOT = 8 };

static const uint32_t start[8] = {
    0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A, 0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19,
};

static uint32_t rotated(uint32_t word, int by)
{
    return word >> by | word << (32 - by);
}

static void mix(uint32_t *state, int a, int b, int c, int d, uint32_t one, uint32_t other)
{
    state[a] += state[b] + one;
    state[d] = rotated(state[d] ^ state[a], 16);
    state[c] += state[d];
    state[b] = rotated(state[b] ^ state[c], 12);
    state[a] += state[b] + other;
    state[d] = rotated(state[d] ^ state[a], 8);
    state[c] += state[d];
    state[b] = rotated(state[b] ^ state[c], 7);
}

static void mix_all(uint32_t *state, const uint32_t *words)
{
    for (int column = 0; column < 4; column++)
        mix(state, column, column + 4, column + 8, column + 12, words[2 * column], words[2 * column + 1]);
    for (int column = 0; column < 4; column++)
        mix(state, column, (column + 1) % 4 + 4, (column + 2) % 4 + 8, (column + 3) % 4 + 12, words[2 * column + 8],
            words[2 * column + 9]);
}

/* Compress one block, padded with zeros, into a chaining value. */
static void compress(uint32_t *chain, const unsigned char *block, uint32_t size, uint64_t counter, uint32_t flags)
{
    static const unsigned char order[16] = {2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8};
    uint32_t words[16] = {0}, next[16], state[16];

    for (uint32_t index = 0; index < size; index++)
        words[index / 4] |= (uint32_t)block[index] << 8 * (index % 4);
    memcpy(state, chain, 32);
    memcpy(state + 8, start, 16);
    state[12] = (uint32_t)counter;
    state[13] = (uint32_t)(counter >> 32);
    state[14] = size;
    state[15] = flags;
    for (int round = 0; round < ROUNDS; round++) {
        mix_all(state, words);
        for (int index = 0; index < 16; index++)
            next[index] = words[order[index]];
        memcpy(words, next, sizeof words);
    }
    for (int index = 0; index < 8; index++)
        chain[index] = state[index] ^ state[index + 8];
}

static void take_chunk(const unsigned char *content, size_t size, uint64_t counter, uint32_t root, uint32_t *chain)
{
    uint32_t flags = CHUNK_START;

    memcpy(chain, start, sizeof start);
    for (; size > BLOCK_SIZE; content += BLOCK_SIZE, size -= BLOCK_SIZE, flags = 0)
        compress(chain, content, BLOCK_SIZE, counter, flags);
    compress(chain, content, (uint32_t)size, counter, flags | CHUNK_END | root);
}

static void put(const uint32_t *chain, unsigned char *bytes)
{
    for (int index = 0; index < 32; index++)
        bytes[index] = (unsigned char)(chain[index / 4] >> 8 * (index % 4));
}

/* The chaining value of a tree; its left subtree has the largest power of two of whole chunks. */
static void take(const unsigned char *content, size_t size, uint64_t counter, uint32_t root, uint32_t *chain)
{
    unsigned char both[BLOCK_SIZE];
    uint32_t left[8], right[8];
    size_t length = CHUNK;

    if (size <= CHUNK) {
        take_chunk(content, size, counter, root, chain);
        return;
    }
    while (2 * length < size)
        length *= 2;
    take(content, length, counter, 0, left);
    take(content + length, size - length, counter + length / CHUNK, 0, right);
    put(left, both);
    put(right, both + 32);
    memcpy(chain, start, sizeof start);
    compress(chain, both, BLOCK_SIZE, 0, PARENT | root);
}

void digest_of(const void *content, size_t size, unsigned char *digest)
{
    uint32_t chain[8];

    take(content, size, 0, ROOT, chain);
    put(chain, digest);
}
