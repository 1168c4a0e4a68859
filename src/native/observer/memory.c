/* Asks the kernel for huge pages where a tool maps memory for its own allocator, as cicc and gcc do.

   Filling such memory page by page takes up to a tenth of the time of a compile. malloc(3) of the C library stays as it
   is: with huge pages for it, too, cudafe++ takes longer on virtual machines that return free memory to their host. */

#include "observer.h"

#include <sys/mman.h>

#define HUGE_PAGE (2UL << 20)
#define LARGEST (256UL << 20) /* a larger mapping may be a reserve, of which only single pages are used */

static void prefer_huge_pages(void *start, size_t length, int protection, int flags)
{
    int is_own = (flags & (MAP_PRIVATE | MAP_ANONYMOUS)) == (MAP_PRIVATE | MAP_ANONYMOUS) && protection & PROT_WRITE;

    if (start != MAP_FAILED && is_own && length >= HUGE_PAGE && length <= LARGEST)
        raw_call(SYS_madvise, (long)start, (long)length, MADV_HUGEPAGE, 0, 0, 0);
}

#define MAPPING(name, offset_type) \
    AFTER(prefer_huge_pages(result, length, protection, flags), void *, MAP_FAILED, name, \
          (void *start, size_t length, int protection, int flags, int descriptor, offset_type offset), \
          (start, length, protection, flags, descriptor, offset))

MAPPING(mmap, off_t)
MAPPING(mmap64, off64_t)
