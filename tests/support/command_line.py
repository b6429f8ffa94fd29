"""The program under test, as it is called on a command line."""
import json
import os
import subprocess
import sys


class Program:
    def __init__(self, path):
        self.path = os.path.abspath(path)

    def run(self, *words):
        """What it prints; ends the test with what it complains of where it fails."""
        done = subprocess.run([self.path, *words], capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"{' '.join(words)}: {done.stderr}")
        return done.stdout

    def ask(self, *words):
        return json.loads(self.run(*words, "--format", "json"))
