"""The examples stand at the top, where people look; a wheel carries them as penstock/examples."""

from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py


class BuildWithExamples(build_py):
    def run(self) -> None:
        super().run()
        if self.editable_mode:
            return
        for file in Path("examples").rglob("*.*"):
            target = Path(self.build_lib, "penstock", file)
            self.mkpath(str(target.parent))
            self.copy_file(str(file), str(target))


setup(cmdclass={"build_py": BuildWithExamples})
