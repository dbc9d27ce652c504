"""Whether kernels are compiled already is known by the files they stand in."""

from foresail.cli.compiling import PACKAGE, kernel_sources


def test_every_kernel_stands_in_a_file_that_is_looked_at():
    with_kernels = {path for path in PACKAGE.rglob("*.py") if "njit" in path.read_text(encoding="utf-8")}
    assert len(with_kernels) > 10
    assert with_kernels - set(kernel_sources()) == set()
