import importlib
import os
import subprocess
import sys

import pytest

device = importlib.import_module("gemmlab.cuda.device")  # gemmlab.device itself is the function


def test_without_a_gpu_there_is_a_reason_and_no_state(monkeypatch):
    monkeypatch.setattr(device, "_find_gpu", lambda: "there is none.")
    assert device.gpu() is None
    assert device.why_no_gpu() == "there is none."
    with pytest.raises(device.NoGpu, match="needs a GPU: there is none"):
        device.gpu_state()


@pytest.mark.gpu
@pytest.mark.skipif(device.gpu() is None, reason=f"needs a GPU: {device.why_no_gpu()}")
def test_a_gpu_says_what_it_is_and_how_it_is():
    gpu = device.gpu()
    assert gpu.sm_count > 0 and gpu.l2_bytes > 0 and gpu.memory_bytes > gpu.l2_bytes
    state = device.gpu_state()
    assert 100 <= state.sm_clock_mhz <= 5000
    assert 0 < state.temperature_c < 120
    assert "cublas" in device.software_versions()


def test_a_home_without_room_for_cupy_s_cache_is_a_sentence(tmp_path):
    home = tmp_path / "home"
    home.write_text("no folder")
    code = "from gemmlab.cuda import device; print(device.why_no_gpu())"
    environment = os.environ | {"HOME": str(home)}
    for name in ("CUPY_CACHE_DIR", "GEMMLAB_DEVICE"):
        environment.pop(name, None)
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert "Traceback" not in done.stderr and done.stdout.strip()
