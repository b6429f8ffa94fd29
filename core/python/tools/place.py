#!/usr/bin/env python3
"""Where below a prefix this interpreter looks for packages that were not installed by pip, relative to the prefix.

usage: place.py PREFIX

Debian's interpreter has two places: one for packages of the archive, below /usr, and one for what is installed beside them, below /usr/local.
"""
import os
import sys
import sysconfig


def main():
    prefix = os.path.realpath(sys.argv[1])
    looked_in = [os.path.realpath(p) for p in sys.path if p]
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    usual = os.path.relpath(sysconfig.get_path("platlib"), sysconfig.get_config_var("platbase") or sys.prefix)
    candidates = ["lib/python3/dist-packages", f"lib/{version}/dist-packages", f"lib/{version}/site-packages", usual]
    for folder in candidates:
        if os.path.realpath(os.path.join(prefix, folder)) in looked_in:
            print(folder)
            return
    debian = "deb_system" in sysconfig.get_scheme_names()
    print("lib/python3/dist-packages" if debian else f"lib/{version}/site-packages")


if __name__ == "__main__":
    main()
