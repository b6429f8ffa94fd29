#!/bin/sh
# Links every module with those that it may see, and nothing else, as a shared object that must define all it uses: an arrow that runs up is an
# undefined symbol.
# usage: check_links.sh COMPILER LIBRARIES FOLDER; FOLDER holds one file a module, NAME.objects, of its own objects and those that it sees.
set -u
compiler=$1 libraries=$2 folder=$3
failed=0 checked=0
for objects in "$folder"/*.objects; do
  module=$(basename "$objects" .objects)
  # Word splitting is meant: libraries are several words.
  # shellcheck disable=SC2086
  if ! said=$("$compiler" -shared -Wl,--whole-archive -Wl,-z,defs -o "$folder/$module.so" "@$objects" -Wl,--no-whole-archive $libraries 2>&1); then
    echo "$module uses what no module below it has:"
    echo "$said" | grep 'undefined reference' | sed 's/.*undefined reference to/ /' | sort -u | head -n 10
    failed=$((failed + 1))
  fi
  rm -f "$folder/$module.so"
  checked=$((checked + 1))
done
echo "$checked modules, $failed failed"
[ "$checked" -gt 0 ] && [ "$failed" -eq 0 ]
