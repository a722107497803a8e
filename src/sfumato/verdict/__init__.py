"""What a release is judged by besides its own targets: the attacks that apply, and two lights."""
