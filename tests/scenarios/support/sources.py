"""The sources that the command lines of the list compile: as small as the matter allows."""

from __future__ import annotations

SOURCES = {
    "a.cu": """
__global__ void scale(float *x, float f) { x[threadIdx.x] *= f; }
void launch(float *x, float f) { scale<<<1, 32>>>(x, f); }
""",
    "b.cu": """
static __device__ int helper(int i) { return i * 3; }
__global__ void fill(int *x) { x[threadIdx.x] = helper(threadIdx.x); }
""",
    "internal.cu": """
namespace { __global__ void hidden(int *x) { x[threadIdx.x] = 7; } }
template <int N> __global__ void stamped(int *x) { x[threadIdx.x] = N; }
static void launch(int *x) { hidden<<<1, 32>>>(x); stamped<4><<<1, 32>>>(x); }
static void (*const keep)(int *) __attribute__((used)) = launch;
""",
    "main.cu": """
#include <cstdio>
__global__ void nothing() {}
int main(int argc, char **) { std::puts("main ran"); if (argc > 9) nothing<<<1, 1>>>(); return 0; }
""",
    "macros.cu": """
#define TEXT_(...) #__VA_ARGS__
#define TEXT(...) TEXT_(__VA_ARGS__)
extern const char *const value;
const char *const value = TEXT(X);
__global__ void kernel(const char **out) { *out = TEXT(X); }
""",
    "headers.cu": """
#include "one.h"
#if defined(__CUDA_ARCH__)
#include "sub dir/device.h"
#endif
__global__ void kernel(int *x) { x[0] = ONE; }
""",
    "included.cu": """
#include <one.h>
#ifdef __CUDA_ARCH__
#include "sub dir/device.h"
#endif
__global__ void kernel(int *x) { x[0] = ONE; }
""",
    "one.h": "#pragma once\n#define ONE 1\n",
    "include/one.h": '#include "two.h"\n#define ONE TWO\n',
    "include/two.h": "#define TWO 2\n",
    "sub dir/device.h": "#define DEVICE 1\n",
    "features.cu": """
#include <cuda_runtime.h>
constexpr int twice(int i) { return 2 * i; }
template <class F> __global__ void apply(F f, float *x) { x[threadIdx.x] = f(x[threadIdx.x]); }
void launch(float *x) {
    apply<<<1, 32>>>([] __device__(float v) { return __sinf(v) / 3.0f + twice(4); }, x);
}
""",
    "host.cpp": "int host(int i) { return i + __cplusplus / 1000000; }\n",
    "plain.c": "int plain(int i) { return i + 1; }\n",
    "kernel.ptx": """
.version 6.5
.target sm_75
.address_size 64
.visible .entry kernel(.param .u64 p) { ret; }
""",
    "device_warning.cu": """
__global__ void kernel(int *x) { int unused_on_device; x[0] = 1; return; x[1] = 2; }
void host() { int unused_on_host; }
""",
    "host_warning.cu": """
#include <cstdio>
#warning once a pass
__global__ void kernel(int *x) { x[0] = 1; }
static int never_called(int i) { return i; }
int host(unsigned u, int i) { std::printf("%s\\n", 5); if (u < i) return 1; }
""",
    "warnings.cu": """
[[deprecated]] void old();
struct Pair { int a, b; Pair() : b(1), a(2) {} };
__global__ void kernel(int *x) { x[0] = 1; }
int host(int *x, long long n) { kernel<<<1, 1>>>(x); old(); int narrow = n; return narrow + Pair().a; }
""",
    "ptxas_warning.cu": """
extern __device__ int elsewhere(int);
__device__ __noinline__ int deep(int i) { return i < 2 ? elsewhere(i) : deep(i - 1) + deep(i - 2); }
__global__ void kernel(int *x) { x[0] = deep(x[1]); }
""",
    "host_error.cu": "__global__ void kernel(int *x) { x[0] = 1; }\nint host() { return undeclared + ; }\n",
    "device_error.cu": "__device__ int f(int i) { return i +; }\n",
    "calls_host.cu": "int host(int);\n__global__ void kernel(int *x) { x[0] = host(1); }\n",
    "hash_error.cu": "#ifdef __CUDA_ARCH__\n#error not for devices\n#endif\n__global__ void kernel() {}\n",
    "host_hash_error.cu": "#error never\n__global__ void kernel() {}\n",
    "no_header.cu": '#include "does_not_exist.h"\n__global__ void kernel() {}\n',
    "bad_ptx.cu": '__global__ void kernel() { asm volatile("no.such.instruction;"); }\n',
    "bad_assembler.cu": '__global__ void kernel() {}\nvoid host() { asm volatile("no_such_instruction"); }\n',
    "device_link.cu": "extern __device__ int f(int);\n__global__ void kernel(int *x) { x[0] = f(x[1]); }\n",
    "device_part.cu": "__device__ int f(int i) { return i + 5; }\nint main() { return 0; }\n",
}

# The headers of a source, which have to be there with it.
HEADERS = {
    "headers.cu": ("one.h", "sub dir/device.h"),
    "included.cu": ("include/one.h", "include/two.h", "sub dir/device.h"),
}

# What is changed in a source, or in its first header: the first of these that it has.
_CHANGES = (
    ("*= f", "+= f"),
    ("return i * 3", "return i * 5"),
    ("return i + 5", "return i - 5"),
    ("f(x[1])", "f(x[2])"),
    ("= 7;", "= 8;"),
    ("nothing() {}", "nothing() { __syncthreads(); }"),
    ("v) / 3.0f", "v) / 5.0f"),
    ("ONE 1", "ONE 2"),
    ("ONE TWO", "ONE TWO + 1"),
    ("{ ret; }", "{ bar.sync 0; ret; }"),
)


def with_comment(_: str, text: str) -> str:
    """A source that says the same in more words."""
    return f"{text}// One more line.\n"


def with_change(name: str, text: str) -> str:
    """A source that says something else to the device, if it has device code."""
    for old, new in _CHANGES:
        if old in text:
            return text.replace(old, new)
    if name.endswith((".c", ".cpp")):
        return text + "int another(int i) { return i; }\n"
    return text + "__global__ void another(int *x) { x[0] = 6; }\n"
