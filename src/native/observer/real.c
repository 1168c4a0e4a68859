/* Finds the functions that the observer wraps, by reading the symbol tables of the loaded objects.

   dlsym(3) cannot be used. Before glibc 2.34, it may allocate memory, and the allocator of a tool may call a wrapped
   function, which calls dlsym again: cicc, which has its own allocator, crashed in this recursion. dlsym also takes the
   loader's lock, which another thread may have held when this process was forked, and changes what dlerror(3) returns.
   Reading the tables allocates nothing and needs no lock, since the C library is early in the list of objects and is
   never unloaded. */

#include "observer.h"

#include <link.h>
#include <string.h>
#include <sys/auxv.h>

#define HIDDEN 0x8000  /* flag in a symbol's version: it is not the default version */

#if defined(__x86_64__)
#define RESOLVE(address) ((void *(*)(void))(address))()
#else
#define RESOLVE(address) ((void *(*)(unsigned long))(address))(getauxval(AT_HWCAP))
#endif

struct tables {
    const uint32_t *hash;
    const ElfW(Sym) *symbols;
    const char *names;
    const ElfW(Half) *versions;
};

/* glibc has added the object's load address to these pointers; other C libraries have not. */
static const void *table_at(const struct link_map *object, const ElfW(Dyn) *entry)
{
    ElfW(Addr) address = entry->d_un.d_ptr;

    return (const void *)(address < object->l_addr ? object->l_addr + address : address);
}

static struct tables tables_of(const struct link_map *object)
{
    struct tables found = {0};
    const ElfW(Dyn) *entry;

    for (entry = object->l_ld; entry->d_tag != DT_NULL; entry++) {
        if (entry->d_tag == DT_GNU_HASH)
            found.hash = table_at(object, entry);
        else if (entry->d_tag == DT_SYMTAB)
            found.symbols = table_at(object, entry);
        else if (entry->d_tag == DT_STRTAB)
            found.names = table_at(object, entry);
        else if (entry->d_tag == DT_VERSYM)
            found.versions = table_at(object, entry);
    }
    return found;
}

static uint32_t hash_of(const char *name)
{
    uint32_t value = 5381;

    while (*name)
        value = value * 33 + (unsigned char)*name++;
    return value;
}

/* The function of this name in one object, or NULL. A hidden version, such as that of __secure_getenv for old programs,
   is returned only if there is no other. */
static void *find_in(const struct link_map *object, const char *name, uint32_t wanted)
{
    struct tables at = tables_of(object);
    const ElfW(Sym) *found = NULL;
    const uint32_t *buckets, *chains;
    uint32_t index;

    if (!at.hash || !at.symbols || !at.names || !at.hash[0])
        return NULL;
    buckets = at.hash + 4 + at.hash[2] * (sizeof(ElfW(Addr)) / sizeof(uint32_t));  /* after the Bloom filter */
    chains = buckets + at.hash[0];
    index = buckets[wanted % at.hash[0]];
    if (index < at.hash[1])
        return NULL;
    for (;; index++) {
        uint32_t hash = chains[index - at.hash[1]];
        const ElfW(Sym) *symbol = &at.symbols[index];
        int kind = ELF64_ST_TYPE(symbol->st_info);

        if ((hash | 1) == (wanted | 1) && symbol->st_shndx != SHN_UNDEF && (kind == STT_FUNC || kind == STT_GNU_IFUNC)
            && !strcmp(at.names + symbol->st_name, name)) {
            int is_hidden = at.versions && at.versions[index] & HIDDEN;
            if (!found || !is_hidden)
                found = symbol;
            if (!is_hidden)
                break;
        }
        if (hash & 1)  /* the last of its bucket */
            break;
    }
    if (!found)
        return NULL;
    if (ELF64_ST_TYPE(found->st_info) == STT_GNU_IFUNC)
        return RESOLVE(object->l_addr + found->st_value);
    return (void *)(object->l_addr + found->st_value);
}

void *observer_find(const char *name)
{
    uint32_t wanted = hash_of(name);
    const struct link_map *object;
    int is_behind = 0;

    for (object = _r_debug.r_map; object; object = object->l_next) {
        void *found = is_behind ? find_in(object, name, wanted) : NULL;

        if (found)
            return found;
        is_behind |= object->l_ld == _DYNAMIC;
    }
    return NULL;
}
