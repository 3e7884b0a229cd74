#!/usr/bin/env python3
"""Makes the encoded pictures and the right answers that tests/pipeline/image compares with.

    /usr/bin/python3 make_fixtures.py        (needs python3-pil, python3-numpy, libjpeg-turbo-progs)

The answers come from others: djpeg for JPEG, this file's own arrays for PNG, Pillow for resizing, numpy for the rest.
Encoded pictures are NAME.jpg and NAME.png, their pixels NAME.ppm (RGB) and NAME.pgm (grey); other answers are
KIND_....ppm, and .f32 (little-endian). `picture` is also in tests/pipeline/image/picture.h: inputs are not stored.
"""
import io
import os
import struct
import subprocess
import tempfile
import zlib

import numpy as np
from PIL import Image

HERE = os.path.dirname(os.path.abspath(__file__))


def picture(height, width, channels=3):
    """A ramp with noise on it, the same in C++."""
    y, x, c = np.mgrid[0:height, 0:width, 0:channels].astype(np.uint32)
    noise = (x * np.uint32(2654435761) + y * np.uint32(40503) + c * np.uint32(7919)) >> np.uint32(9)
    return ((x * 3 + y * 5 + c * 60 + (noise & np.uint32(63))) & np.uint32(255)).astype(np.uint8)


def put(name, data):
    with open(os.path.join(HERE, name), 'wb') as file:
        file.write(data)


def put_pixels(name, pixels):
    pixels = np.ascontiguousarray(pixels, dtype=np.uint8)
    grey = pixels.ndim == 2 or pixels.shape[2] == 1
    head = '%s\n%d %d\n255\n' % ('P5' if grey else 'P6', pixels.shape[1], pixels.shape[0])
    put(name + ('.pgm' if grey else '.ppm'), head.encode() + pixels.tobytes())


def run(args, data):
    return subprocess.run(args, input=data, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=True).stdout


def cjpeg(pixels, *args):
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, 'PPM')
    return run(['cjpeg', *args], out.getvalue())


def djpeg(data, *args):
    return np.asarray(Image.open(io.BytesIO(run(['djpeg', '-dct', 'int', '-pnm', *args], data))))


def put_jpeg(name, data):
    put(name + '.jpg', data)
    put_pixels(name, djpeg(data, '-rgb'))
    put_pixels(name, djpeg(data, '-grayscale'))


# JPEG ----------------------------------------------------------------------------------------------------------------
def segments(data):
    at = 2
    while True:
        end = at + 2 + struct.unpack('>H', data[at + 2:at + 4])[0]
        yield data[at + 1], at, end
        if data[at + 1] == 0xDA:
            return
        at = end


def exif(orientation, order):
    """Two tags, so that a reader has to look for the second; `order` is '<' or '>'."""
    mark = b'II' if order == '<' else b'MM'
    entry = lambda tag, value: struct.pack(order + 'HHIHH', tag, 3, 1, value, 0)
    return mark + struct.pack(order + 'HI', 42, 8) + struct.pack(order + 'H', 2) + \
        entry(0x0100, 7) + entry(0x0112, orientation) + struct.pack(order + 'I', 0)


def with_exif(data, tiff):
    body = b'Exif\0\0' + tiff
    return data[:2] + b'\xff\xe1' + struct.pack('>H', len(body) + 2) + body + data[2:]


def turned(raw, orientation):
    """What orientation means, by numpy's flips and transpositions."""
    swap = lambda a: a.transpose(1, 0, 2)
    return {1: raw, 2: raw[:, ::-1], 3: raw[::-1, ::-1], 4: raw[::-1], 5: swap(raw), 6: swap(raw[::-1]),
            7: swap(raw[::-1, ::-1]), 8: swap(raw[:, ::-1])}[orientation]


def make_jpegs():
    samplings = {'444': '1x1', '422': '2x1', '420': '2x2', '440': '1x2', '411': '4x1'}
    for height, width in ((1, 1), (13, 17), (17, 33)):
        for name, sampling in samplings.items():
            put_jpeg('jpeg_%dx%d_%s' % (height, width, name),
                     cjpeg(picture(height, width), '-quality', '90', '-optimize', '-sample', sampling))
    source = picture(24, 40)
    put_jpeg('jpeg_progressive', cjpeg(source, '-quality', '80', '-progressive', '-sample', '2x2'))
    put_jpeg('jpeg_restart', cjpeg(source, '-quality', '80', '-optimize', '-restart', '1', '-sample', '2x2'))
    put_jpeg('jpeg_arithmetic', cjpeg(source, '-quality', '80', '-arithmetic'))
    with tempfile.NamedTemporaryFile('w', suffix='.txt') as scans:
        scans.write('0;\n1;\n2;\n')
        scans.flush()
        put_jpeg('jpeg_scans', cjpeg(source, '-quality', '80', '-sample', '2x2', '-scans', scans.name))
    put_jpeg('jpeg_rgb', cjpeg(source, '-quality', '80', '-optimize', '-rgb'))
    put_jpeg('jpeg_grey', cjpeg(source, '-quality', '80', '-optimize', '-grayscale'))
    put_jpeg('jpeg_grey_2x2', cjpeg(source, '-quality', '80', '-optimize', '-grayscale', '-sample', '2x2'))

    plain = cjpeg(picture(5, 7), '-quality', '95', '-optimize', '-sample', '1x1')
    raw = djpeg(plain)
    for orientation in range(1, 9):
        name = 'jpeg_orientation_%d' % orientation
        put(name + '.jpg', with_exif(plain, exif(orientation, '<' if orientation % 2 else '>')))
        put_pixels(name, turned(raw, orientation))

    inks = np.zeros((8, 32, 4), np.uint8)
    for i, ink in enumerate(((0, 255, 255, 0), (255, 0, 255, 0), (255, 255, 0, 0), (0, 0, 0, 128))):
        inks[:, 8 * i:8 * i + 8] = ink
    rgb = (255 - inks[..., :3].astype(int)) * (255 - inks[..., 3:].astype(int)) / 255
    put_pixels('jpeg_inks', np.floor(rgb + 0.5))

    def save(array):
        out = io.BytesIO()
        Image.fromarray(array, 'CMYK').save(out, 'JPEG', quality=95)
        return out.getvalue()
    put('jpeg_cmyk.jpg', save(inks))
    ycck = inks.copy()
    ycck[..., :3] = 255 - np.asarray(Image.fromarray(inks[..., :3].copy(), 'RGB').convert('YCbCr'))
    data = save(ycck)
    start = next(at for marker, at, _ in segments(data) if marker == 0xEE)
    put('jpeg_ycck.jpg', data[:start + 15] + b'\x02' + data[start + 16:])
    data = save(255 - inks)
    start, end = next((at, end) for marker, at, end in segments(data) if marker == 0xEE)
    put('jpeg_cmyk_plain.jpg', data[:start] + data[end:])


# PNG -----------------------------------------------------------------------------------------------------------------
def chunk(kind, data):
    return struct.pack('>I', len(data)) + kind + data + struct.pack('>I', zlib.crc32(kind + data))


def packed(samples, depth):
    """One row of samples [width, channels] as bytes."""
    if depth == 16:
        return samples.astype('>u2').tobytes()
    if depth == 8:
        return samples.astype(np.uint8).tobytes()
    bits = ''.join(format(int(v), '0%db' % depth) for v in samples.ravel())
    bits += '0' * (-len(bits) % 8)
    return bytes(int(bits[i:i + 8], 2) for i in range(0, len(bits), 8))


def png(samples, depth, color_type, extra=b'', interlaced=False, after=b''):
    height, width = samples.shape[:2]
    samples = samples.reshape(height, width, -1)
    passes = [(0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2), (1, 0, 2, 1)] \
        if interlaced else [(0, 0, 1, 1)]
    rows = b''
    for top, left, down, right in passes:
        part = samples[top::down, left::right]
        if part.shape[1] > 0:
            rows += b''.join(b'\0' + packed(row, depth) for row in part)
    head = struct.pack('>IIBBBBB', width, height, depth, color_type, 0, 0, int(interlaced))
    return b'\x89PNG\r\n\x1a\n' + chunk(b'IHDR', head) + extra + chunk(b'IDAT', zlib.compress(rows, 9)) + after + \
        chunk(b'IEND', b'')


def luma(rgb):
    rgb = rgb.astype(np.uint32)
    return ((rgb[..., 0] * 19595 + rgb[..., 1] * 38470 + rgb[..., 2] * 7471 + 32768) >> 16).astype(np.uint8)


def put_png(name, data, rgb):
    put(name + '.png', data)
    put_pixels(name, rgb)
    put_pixels(name, luma(rgb))


def make_pngs():
    height, width = 9, 13
    colour = picture(height, width)
    grey = picture(height, width, 1)[..., 0]
    thrice = lambda plane: np.repeat(plane[..., None], 3, 2).astype(np.uint8)
    for depth in (1, 2, 4, 8):
        levels = grey >> (8 - depth)
        put_png('png_grey_%d' % depth, png(levels, depth, 0), thrice(levels * (255 // (2 ** depth - 1))))
    deep = colour.astype(np.uint16) * 256 + (255 - colour)
    put_png('png_grey_16', png(deep[..., 0], 16, 0), thrice(deep[..., 0] >> 8))
    put_png('png_rgb_16', png(deep, 16, 2), deep >> 8)
    put_png('png_rgb_8', png(colour, 8, 2), colour)
    alpha = 255 - grey
    put_png('png_rgba', png(np.dstack([colour, alpha]), 8, 6), colour)
    put_png('png_grey_alpha', png(np.dstack([grey, alpha]), 8, 4), thrice(grey))
    palette = picture(1, 16)[0]
    trns = chunk(b'tRNS', bytes((i * 16) & 255 for i in range(16)))
    for depth in (1, 2, 4, 8):
        index = grey >> 4 if depth == 8 else grey >> (8 - depth)
        colours = palette[:2 ** depth]
        put_png('png_palette_%d' % depth, png(index, depth, 3, chunk(b'PLTE', colours.tobytes())), colours[index])
    put_png('png_palette_trns', png(grey >> 4, 4, 3, chunk(b'PLTE', palette.tobytes()) + trns), palette[grey >> 4])
    put_png('png_rgb_trns', png(colour, 8, 2, chunk(b'tRNS', struct.pack('>HHH', *(int(v) for v in colour[3, 4])))),
            colour)
    put_png('png_interlaced', png(colour, 8, 2, interlaced=True), colour)
    put_png('png_interlaced_grey_2', png(grey >> 6, 2, 0, interlaced=True), thrice((grey >> 6) * 85))
    put_png('png_1x1_interlaced', png(colour[:1, :1], 8, 2, interlaced=True), colour[:1, :1])
    for orientation in range(1, 9):
        tag = chunk(b'eXIf', exif(orientation, '>' if orientation % 2 else '<'))
        before = orientation % 3 != 0
        put_png('png_orientation_%d' % orientation,
                png(colour, 8, 2, extra=tag if before else b'', after=b'' if before else tag),
                turned(colour, orientation))


# Answers -------------------------------------------------------------------------------------------------------------
def make_answers():
    for (height, width, channels), (to_height, to_width) in (
            ((47, 61, 3), (32, 32)), ((47, 61, 3), (8, 9)), ((47, 61, 3), (1, 1)), ((47, 61, 3), (47, 20)),
            ((47, 61, 3), (60, 61)), ((9, 7, 3), (20, 31)), ((1, 1, 3), (5, 4)), ((33, 70, 1), (19, 24)),
            ((300, 5, 3), (17, 5)), ((140, 400, 3), (2, 3)), ((400, 9, 1), (3, 30))):
        source = picture(height, width, channels)
        image = Image.fromarray(source if channels == 3 else source[..., 0])
        put_pixels('resize_%dx%dx%d_to_%dx%d' % (height, width, channels, to_height, to_width),
                   np.asarray(image.resize((to_width, to_height), Image.BILINEAR)))
    source = picture(11, 14)
    image = Image.fromarray(source)
    put_pixels('flip_11x14', np.asarray(image.transpose(Image.FLIP_LEFT_RIGHT)))
    for height, width in ((4, 5), (11, 14), (5, 5), (1, 1), (10, 13)):
        top, left = round((11 - height) / 2), round((14 - width) / 2)
        put_pixels('center_%dx%d' % (height, width), np.asarray(image.crop((left, top, left + width, top + height))))
    top, left = (18 - 11) // 2, (19 - 14) // 2
    for mode, options in (('constant', {'constant_values': 9}), ('reflect', {})):
        put_pixels('center_pad_%s_18x19' % mode,
                   np.pad(source, ((top, 7 - top), (left, 5 - left), (0, 0)), mode, **options))
    for padding, mode, options in ((4, 'constant', {'constant_values': 7}), (4, 'reflect', {}), (23, 'reflect', {})):
        put_pixels('padded_%s_%d' % (mode, padding),
                   np.pad(source, ((padding, padding), (padding, padding), (0, 0)), mode, **options))
    mean = np.array([0.485, 0.456, 0.406], np.float32)
    deviation = np.array([0.229, 0.224, 0.225], np.float32)
    values = np.arange(16 * 16 * 3, dtype=np.uint32).reshape(16, 16, 3) // 3
    values = ((values + np.array([0, 85, 170], np.uint32)) & np.uint32(255)).astype(np.uint8)  # every value in every channel
    put_pixels('values', values)
    answer = (values.astype(np.float32) / np.float32(255) - mean) / deviation
    assert answer.dtype == np.float32
    put('normalise_hwc.f32', answer.astype('<f4').tobytes())
    put('normalise_chw.f32', answer.transpose(2, 0, 1).astype('<f4').tobytes())


if __name__ == '__main__':
    make_jpegs()
    make_pngs()
    make_answers()
