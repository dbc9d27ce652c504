"""What policies and controllers look ahead with: plain objects, no clock and no cluster inside. Knows numpy alone."""
