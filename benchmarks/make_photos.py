#!/usr/bin/env python3
"""Photo crops of about 500x375 (4:2:0, about 92 KB) in 10 class folders, for jpeg_bench.

usage: make_photos.py UNPACKED OUT COUNT [SEED]

UNPACKED holds Debian's plasma-workspace-wallpapers, mate-backgrounds and gnome-backgrounds, fetched with `apt-get download`
and unpacked with `dpkg -x` (nothing is installed). Needs python3-pil. Prints the number of sources and the mean size;
figures that are published say the seed and that size.
"""
import glob, io, os, random, sys
from PIL import Image

unpacked, out, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
rng = random.Random(int(sys.argv[4]) if len(sys.argv) > 4 else 11)

sources = []
for path in sorted(glob.glob(unpacked + '/**/*.jpg', recursive=True)):
    if os.path.getsize(path) < 200_000 or '/opencv' in path: continue
    try: picture = Image.open(path).convert('RGB')
    except OSError: continue
    if min(picture.size) >= 1400: sources.append(picture)

total = 0
for i in range(count):
    while True:                                   # smooth crops decode too easily: draw again below 0.3 byte a pixel
        picture = rng.choice(sources)
        w, h = rng.choice([500, 500, 500, 480, 512, 375, 333]), rng.choice([375, 375, 333, 500, 400])
        x, y = rng.randrange(picture.width - 2 * w), rng.randrange(picture.height - 2 * h)
        crop = picture.crop((x, y, x + 2 * w, y + 2 * h)).resize((w, h), Image.BOX)
        jpeg = io.BytesIO()
        crop.save(jpeg, 'JPEG', quality=rng.choice([92, 95, 96, 97]), subsampling=2)
        if jpeg.tell() > 0.3 * w * h: break
    folder = f'{out}/c{i % 10:02d}'
    os.makedirs(folder, exist_ok=True)
    with open(f'{folder}/{i:05d}.jpg', 'wb') as f: f.write(jpeg.getvalue())
    total += jpeg.tell()
print(len(sources), 'sources, mean bytes', round(total / count))
