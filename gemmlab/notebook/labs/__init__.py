"""What a reader moves: sliders and players.

gl.lab is in sliders, what it shows in lab_view, what it answers to settings that do not go together
in refusal; gl.step_player is in step_player, gl.ring_player in ring_player. error_sliders are those
of 19, search_lab's those of 20; panel is what all share.
"""
