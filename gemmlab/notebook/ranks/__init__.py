"""What lives in 21_multi_gpu: sliders of a model, lines of schedules, exercises."""
