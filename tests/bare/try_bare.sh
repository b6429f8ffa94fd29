#!/usr/bin/env bash
# The README's two commands and the package, as somebody meets them on a new machine: in a Debian that has nothing but git and apt, without a
# compiler cache. Prints how long each took. Needs root, debootstrap and the Debian archive that this machine uses.
#
# usage: try_bare.sh SUITE FOLDER [STEP...]    SUITE: bookworm or trixie; FOLDER: where the systems are made, 6 GB each
# steps: demo test package python pip (default: the first three, in this order). PACKAGE=FILE installs that package instead of what `package` made.
# python: the Python module, installed by cmake; pip: by pip, where Debian has scikit-build-core; the front page's lines run where no compiler is.
# A system that is there already is used again as it is; remove FOLDER/SUITE to begin from nothing.
set -euo pipefail
[ $# -ge 2 ] || { sed -n '2,9s/^# \{0,1\}//p' "$0" >&2; exit 2; }
suite=$1 folder=$(realpath -m "$2")
shift 2
steps=("${@:-demo test package}")
# shellcheck disable=SC2128,SC2206
steps=(${steps[*]})
source=$(git -C "$(dirname "$0")" rev-parse --show-toplevel)
root=$folder/$suite results=$folder/$suite.txt

say() { printf '%s\n' "$*" | tee -a "$results" >&2; }

# make_system ROOT [PACKAGE...]: a minimal Debian that reaches the archive as this machine does.
make_system() {
  local root=$1
  shift
  [ -x "$root/usr/bin/apt-get" ] || debootstrap --variant=minbase "$suite" "$root" >"$folder/debootstrap.log"
  cp /etc/resolv.conf "$root/etc/resolv.conf"
  find /etc/apt/apt.conf.d -name '*registry*' -o -name '*proxy*' | xargs -r cp -t "$root/etc/apt/apt.conf.d"
  if [ -d /usr/local/share/ca-certificates ]; then cp -r /usr/local/share/ca-certificates/. "$root/usr/local/share/ca-certificates/"; fi
  mountpoint -q "$root/proc" || mount -t proc proc "$root/proc"
  mountpoint -q "$root/dev" || mount --rbind /dev "$root/dev"
  chroot "$root" sh -c "apt-get -q update && DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends $*" >"$folder/apt.log"
}

leave() {
  umount -lR "$1/dev" 2>/dev/null || true
  umount "$1/proc" 2>/dev/null || true
}
trap 'leave "$root"; leave "$root-user"' EXIT

# timed WORDS COMMAND...: in the system, in the clone; what it prints goes to a file beside the system.
timed() {
  local name=$1 began=$SECONDS code=0
  shift
  chroot "$root" env -i HOME=/tmp PATH=/usr/sbin:/usr/bin:/sbin:/bin CCACHE_DISABLE=1 LANG=C.UTF-8 sh -c "cd /srv/rehearse && $*" \
    >"$folder/$suite.$name.log" 2>&1 || code=$?
  say "$suite $name: $(((SECONDS - began) / 60)) min $(((SECONDS - began) % 60)) s, exit $code"
  return $code
}

# in_user COMMAND: in the system without a compiler, away from any source.
in_user() { chroot "$root-user" env -i HOME=/tmp PATH=/usr/local/bin:/usr/bin:/bin LANG=C.UTF-8 sh -c "cd /srv && $*"; }

# The front page's Python as a user runs it: wherever they are, and what it prints.
run_front_page() {
  sed -n '/^```python$/,/^```$/{/^```/!p}' "$source/README.md" >"$root-user/srv/front_page.py"
  in_user python3 front_page.py | tee -a "$results" >&2
}

# packages_of FILE...: those that hold the libraries that these files of the system are linked with.
packages_of() {
  chroot "$root" sh -c "ldd $*" | awk '$3 ~ "^/" {print $3}' |
    xargs -n 1 chroot "$root" sh -c 'file=$(realpath "$0"); dpkg -S "$file" 2>/dev/null || dpkg -S "/usr$file" 2>/dev/null || dpkg -S "${file#/usr}"' | cut -d: -f1 | sort -u
}

# What building the module takes, in the system where it is built.
prepare_python() {
  timed python_deps "./bootstrap install-deps && DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends pybind11-dev python3-dev"
}

try_python() {
  prepare_python
  timed python_build "cmake --preset demo -DREHEARSE_PYTHON=ON && cmake --build build/default --target rehearse rehearse_python_package"
  timed python_install "DESTDIR=/srv/installed cmake --install build/default --prefix /usr/local --component python && DESTDIR=/srv/installed cmake --install build/default --prefix /usr/local --component program"
  # shellcheck disable=SC2046
  make_system "$root-user" ca-certificates python3 $(packages_of '/srv/installed/usr/local/lib/python3*/dist-packages/rehearse/_core*.so')
  cp -a "$root/srv/installed/usr/local/." "$root-user/usr/local/"
  run_front_page
  say "$suite: the module that cmake installed runs in $(in_user python3 --version)"
}

try_pip() {
  prepare_python
  timed pip_deps "DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends python3-pip python3-scikit-build-core python3-pybind11"
  timed pip_wheel "rm -rf /srv/wheel /srv/unpacked && pip wheel . --no-build-isolation --no-deps -w /srv/wheel && python3 -m zipfile -e /srv/wheel/rehearse-*.whl /srv/unpacked"
  # shellcheck disable=SC2046
  make_system "$root-user" ca-certificates python3-pip $(packages_of '/srv/unpacked/rehearse/_core*.so')
  rm -rf "$root-user/usr/local/lib/python3"*/dist-packages/rehearse "$root-user/usr/local/share/rehearse" "$root-user/usr/local/bin/rehearse"
  cp "$root"/srv/wheel/*.whl "$root-user/srv/"
  in_user pip install --no-index --break-system-packages /srv/rehearse-*.whl >"$folder/pip.log" 2>&1
  run_front_page
  say "$suite: the module that pip installed runs in $(in_user python3 --version), without a network"
}

mkdir -p "$folder"
say "$suite, $(git -C "$source" rev-parse --short HEAD), $(nproc) cores"
make_system "$root" git ca-certificates
chroot "$root" update-ca-certificates >/dev/null 2>&1 || true
if [ ! -d "$root/srv/rehearse" ]; then git clone -q "$source" "$root/srv/rehearse"; else git -C "$root/srv/rehearse" pull -q; fi
for step in "${steps[@]}"; do
  case $step in
    demo) timed demo ./bootstrap demo ;;
    test) timed test ./bootstrap test; tail -n 3 "$folder/$suite.test.log" | tee -a "$results" >&2 ;;
    package)
      [ -n "${PACKAGE-}" ] || timed package ./bootstrap package
      package=${PACKAGE:-$(ls "$root"/srv/rehearse/build/default/rehearse*.deb)}
      make_system "$root-user" ca-certificates
      cp "$package" "$root-user/srv/rehearse.deb"
      chroot "$root-user" sh -c 'DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends /srv/rehearse.deb' >"$folder/install.log" 2>&1
      ! chroot "$root-user" sh -c 'command -v c++ || command -v g++ || command -v clang' || { say "the system has a compiler"; exit 1; }
      chroot "$root-user" sh -c 'cd /srv && rehearse simulate scenarios/gpt3_175b_a100_1024.json' | sed -n 4,6p | tee -a "$results" >&2
      say "$suite: $(du -h "$package" | cut -f1) package installed and run without a compiler" ;;
    python) try_python ;;
    pip) try_pip ;;
    *) say "no step '$step'"; exit 2 ;;
  esac
done
