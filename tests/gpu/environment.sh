# Read by first.sh and gpu.sh: where the programs are, and the libraries that they open.
#
# PROGRAMS is a build folder, or one that carry.sh filled; the programs lie in it as in a build folder. cuBLASLt, NCCL and cuDNN are found beside the toolkit
# or inside Python packages, whichever is there.

programs=${PROGRAMS:-build/gpu}
[ ! -d "$programs/lib" ] || LD_LIBRARY_PATH=$(realpath "$programs/lib")${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
python_packages=$(python3 -c 'import site, sys; print("\n".join(p for p in sys.path + site.getsitepackages() if p.endswith("-packages")))' 2>/dev/null | sort -u)
# The folder of a library, unless the loader knows it.
folder_of() {
  if ldconfig -p 2>/dev/null | grep -q "$1 "; then return; fi
  for root in ${CUDA_HOME:-/usr/local/cuda} $python_packages; do
    found=$(find -L "$root" -name "$1" -print -quit 2>/dev/null)
    if [ -n "$found" ]; then dirname "$found"; return; fi
  done
}
for library in libcublasLt.so.13 libcublasLt.so.12 libcublas.so.13 libcublas.so.12 libnccl.so.2 libcudnn.so.9; do
  folder=$(folder_of $library)
  case ":${LD_LIBRARY_PATH:-}:" in *":$folder:"*) folder= ;; esac
  [ -z "$folder" ] || LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$folder
done
export LD_LIBRARY_PATH
export REHEARSE_DATA=$PWD
