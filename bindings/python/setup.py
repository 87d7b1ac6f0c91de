from setuptools import setup

setup(cffi_modules=["build_simba.py:builder"])
