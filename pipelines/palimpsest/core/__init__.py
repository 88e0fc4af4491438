"""What every folder uses: errors, ids, files, hashes of code, progress, processes."""
