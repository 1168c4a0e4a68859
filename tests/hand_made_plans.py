"""Commands as nvcc writes them, shortened, and the plans that they make."""

from __future__ import annotations

from nvccache.commandline import invocation
from nvccache.commandline.invocation import Bypass, Invocation
from nvccache.plan import build
from nvccache.plan.model import Plan
from nvccache.toolkit import dryrun
from nvccache.toolkit.dryrun import Transcript

HOST = 'gcc -D__CUDA_ARCH_LIST__=800 -E -x c++ -D__CUDACC__ "a.cu" -o "/s/a.cpp4.ii"'
CUDAFE = (
    'cudafe++ --orig_src_file_name "a.cu" --orig_src_path_name "/p/a.cu" --gen_c_file_name "/s/a.cudafe1.cpp"'
    ' --stub_file_name "a.cudafe1.stub.c" --gen_module_id_file --module_id_file_name "/s/a.module_id"'
    ' "/s/a.cpp4.ii"'
)
DEVICE = 'gcc -D__CUDA_ARCH__=800 -D__CUDA_ARCH_LIST__=800 -E -x c++ "a.cu" -o "/s/a.cpp1.ii"'
CICC = (
    'cicc --orig_src_file_name "a.cu" --orig_src_path_name "/p/a.cu" -arch compute_80'
    ' --include_file_name "a.fatbin.c" --module_id_file_name "/s/a.module_id"'
    ' --gen_c_file_name "/s/a.cudafe1.c" --stub_file_name "/s/a.cudafe1.stub.c"'
    ' --gen_device_file_name "/s/a.cudafe1.gpu" "/s/a.cpp1.ii" -o "/s/a.ptx"'
)
PTXAS = 'ptxas -arch=sm_80 -m64 "/s/a.ptx" -o "/s/a.cubin"'
FATBINARY = (
    'fatbinary --create="/s/a.fatbin" -64 "--image3=kind=elf,sm=80,file=/s/a.cubin"'
    ' "--image3=kind=ptx,sm=80,file=/s/a.ptx" --embedded-fatbin="/s/a.fatbin.c"'
)
COMPILE = 'gcc -D__CUDA_ARCH__=800 -c -x c++ "/s/a.cudafe1.cpp" -o "a.o"'
LINK = 'g++ -o "x" -Wl,--start-group "/s/a.o" -Wl,--end-group'
PIPELINE = (HOST, CUDAFE, DEVICE, CICC, PTXAS, FATBINARY, COMPILE)


def built(lines, argv="-c a.cu", scratch="/s") -> Plan | Bypass:
    transcript = dryrun.read("".join(f"#$ {line}\n" for line in lines).encode())
    assert isinstance(transcript, Transcript)
    parsed = invocation.parse(argv.split(), {})
    assert isinstance(parsed, Invocation)
    return build.plan_of(transcript, parsed, scratch)


def planned(*lines, argv="-c a.cu", scratch="/s") -> Plan:
    found = built(lines, argv, scratch)
    assert isinstance(found, Plan), found
    return found
