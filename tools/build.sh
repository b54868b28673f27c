# Sourced by ./start, ./test and .ci/run: installing what is missing and building, quiet unless something fails.
set -euo pipefail
root="$(dirname "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")")"

say() { echo "== $*"; }

fail() {
  echo "error: $*" >&2
  exit 1
}

# One compiler takes up to 1.5 GB, so a small machine gets fewer of them than it has cores.
build_jobs() {
  local cores memory
  cores="$(nproc)"
  memory="$(awk '/^MemAvailable/ { print int($2 / 1500000) }' /proc/meminfo)"
  ((memory >= 1)) || memory=1
  echo $((cores < memory ? cores : memory))
}

# build FOLDER TARGETS [CMAKE_ARGUMENT...]: a line at every tenth of the way; the whole output is in FOLDER/build.log.
# TARGETS is one argument, with spaces between several.
build() {
  local folder="$1" targets="$2" generator=(-G Ninja) launcher=()
  shift 2
  [[ ! -e "$folder/CMakeCache.txt" ]] || generator=()
  ! command -v ccache > /dev/null || launcher=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
  mkdir -p "$folder" || fail "cannot write to $folder"
  if ! cmake -S "$root" -B "$folder" "${generator[@]}" "${launcher[@]}" "$@" > "$folder/build.log" 2>&1; then
    tail -n 30 "$folder/build.log" >&2
    fail "cmake could not configure $folder (above; whole output in $folder/build.log)"
  fi
  say "building $targets in $folder"
  if ! cmake --build "$folder" --target $targets --parallel "$(build_jobs)" 2>&1 < /dev/null |
      tee -a "$folder/build.log" |
      awk 'match($0, /^\[[0-9]+\/[0-9]+\]/) {
             split(substr($0, 2, RLENGTH - 2), n, "/")
             if (int(10 * n[1] / n[2]) > tenth) { tenth = int(10 * n[1] / n[2]); print "   " n[1] " of " n[2] " steps"; fflush() }
           }'; then
    grep -n -m 1 -A 30 -E 'FAILED|rror' "$folder/build.log" >&2 || tail -n 30 "$folder/build.log" >&2
    fail "the build of $targets failed (above; whole output in $folder/build.log)"
  fi
}

# run_tests FOLDER [CTEST_ARGUMENT...]: failures and the closing lines; the whole output is in FOLDER/test.log.
# Two threads for each test, which give their core up while they wait.
run_tests() {
  local folder="$1"
  shift
  say "testing in $folder"
  OMP_NUM_THREADS=2 OMP_WAIT_POLICY=passive \
    ctest --test-dir "$folder" --parallel "$(nproc)" --output-on-failure "$@" 2>&1 < /dev/null |
    tee "$folder/test.log" |
    awk '/ Passed +[0-9.]+ sec$/ { split($1, n, "/")
           if (int(10 * n[1] / n[2]) > tenth) { tenth = int(10 * n[1] / n[2]); print "   " n[1] " of " n[2] " tests"; fflush() }
           next }
         /^ +Start +[0-9]+: / || /^Internal ctest|^Test project/ { next }
         { print; fflush() }'
}

# What the build in build-address is configured with, its fuzzers included.
address_build=(-DCMAKE_CXX_COMPILER=clang++-14 "-DPLUMB_SANITIZE=address;undefined")
